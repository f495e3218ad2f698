"""Audits of image classifiers from their predictions alone: no model is asked."""

from __future__ import annotations

from equipoise.audit.classify.inputs import ClassifierInputs, read_classifier_inputs, read_image_labels
from equipoise.audit.classify.run import ClassifierAudit, ClassifierSettings, audit_classifier

__all__ = [
    "ClassifierAudit",
    "ClassifierInputs",
    "ClassifierSettings",
    "audit_classifier",
    "read_classifier_inputs",
    "read_image_labels",
]
