"""What makes Jobs and CronJobs legal."""
