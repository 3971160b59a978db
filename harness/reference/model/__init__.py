"""The arithmetic of the model: KDA, MLA, MoE and MTP layers over a live state."""
