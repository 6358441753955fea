"""KubeSchedulerConfiguration: strict reading of files, profiles, their plugins and arguments."""
