"""Training encoders: data, objectives, models, the loop. The only folder that needs torch."""
