"""The stream check: are streamed and whole answers the same answers, well formed and well counted?"""
