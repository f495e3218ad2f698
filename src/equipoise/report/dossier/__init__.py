"""The dossier: what was promised before a run, what came of it, and what remains, for whoever asks months later."""
