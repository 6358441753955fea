"""What a program's use of the API server is counted by: requests, watches, work queues, leases, under client-go's names
where it has them."""
