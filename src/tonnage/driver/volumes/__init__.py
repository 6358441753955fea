"""What the driver does with volumes: create, publish, stage, grow, snapshot, rebuild, delete."""
