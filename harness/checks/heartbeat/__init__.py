"""The heartbeat check: does a server still answer after load as it did before?"""
