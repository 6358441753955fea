"""KubeSchedulerConfiguration: files read strictly, profiles, the plugins they run and their arguments."""
