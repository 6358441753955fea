"""What tests of Tonnage, and of plugins for it, need again and again."""
