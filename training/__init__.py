"""Learning encoders: data, objectives, models, the loop. The only folder with torch."""
