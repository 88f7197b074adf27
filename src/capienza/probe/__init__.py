"""What the machine is that this runs on: asked of the system and of the driver's own program, never guessed."""
