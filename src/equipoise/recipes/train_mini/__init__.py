"""Train the embedded miniature models on the pictogram world: deterministic, resumable, one thread each.

``PARTS`` says what each part is; :func:`train` makes one, and
:func:`equipoise.recipes.train_mini.evaluate.figures_of` gives the figures its model card holds. Nobody trains them on
install: the checkpoints come with the package.
"""

from equipoise.recipes.train_mini.parts import PARTS, TrainingPart, train

__all__ = ["PARTS", "TrainingPart", "train"]
