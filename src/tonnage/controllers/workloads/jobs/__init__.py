"""Jobs, CronJobs, and what becomes of Jobs that have finished. Plans are pure; controllers read, ask, write."""
