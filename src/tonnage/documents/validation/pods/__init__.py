"""What makes a pod, or a pod template, legal; and what may change on one that exists."""
