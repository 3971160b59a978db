"""The spec-parity check: are answers made with drafts those that the model gives without?"""
