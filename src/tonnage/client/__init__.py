"""How any program talks to a Kubernetes API server, ours or another.

    kubeconfig.load ──► Connection ──► Client ──► wire (HttpTransport)
                                         ▲
              Informers, WorkQueue, Recorder, LeaderElector

`Client` has the verbs, one request each. An `Informer` keeps all objects of a resource and calls event handlers,
`WorkQueue` queues their keys, `Recorder` writes events, `LeaderElector` lets one copy of a program work. All run on one
event loop, with the client's clock and random numbers.
"""
