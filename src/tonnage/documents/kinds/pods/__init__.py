"""Pod and PodTemplate, and the rules of the pod templates of workloads."""
