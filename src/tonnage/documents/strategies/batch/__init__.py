"""The rules of Jobs and CronJobs."""
