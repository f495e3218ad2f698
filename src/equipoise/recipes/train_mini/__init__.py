"""Train the embedded miniature models on the pictogram world: deterministic, resumable, one thread each.

``PARTS`` says what each part is; :func:`train` makes one, :func:`equipoise.recipes.train_mini.evaluate.evaluate` prints
the figures its model card holds. Nobody trains them on install: the checkpoints come with the package.
"""

from equipoise.recipes.train_mini.parts import PARTS, TrainingPart, train

__all__ = ["PARTS", "TrainingPart", "train"]
