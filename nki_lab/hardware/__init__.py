"""The official Neuron tools and devices: what is installed, how it is run, and what its messages and files say.

Nothing here initialises the Neuron Runtime in this process: whoever does so keeps a NeuronCore until the process ends.
"""
