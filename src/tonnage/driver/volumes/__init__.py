"""What the driver does with volumes: create, publish, stage, expand, snapshot, rebuild, delete."""
