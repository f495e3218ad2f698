"""What happens to models when generated images enter their data: the study ``equipoise recipe contamination``."""
