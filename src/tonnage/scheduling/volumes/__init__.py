"""What pods need of storage, and who has it: claims, volumes, pools, promises."""
