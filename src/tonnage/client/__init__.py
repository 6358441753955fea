"""How any program talks to a Kubernetes API server, ours or any other.

    kubeconfig.load ──► Connection ──► Client ──► wire (HttpTransport)
                                         ▲
              Informers, WorkQueue, Recorder, LeaderElector

`Client` is the verbs, one request each. `Informer` keeps all objects of a resource and calls event handlers,
`WorkQueue` takes what they are about, `Recorder` writes events, `LeaderElector` sees that one copy of a program is at
work. All of it runs on one event loop, on the clock and the random numbers that the client was given.
"""
