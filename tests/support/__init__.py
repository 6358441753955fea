"""What several folders of tests need, and nobody outside of them: rigs, builders, proxies."""
