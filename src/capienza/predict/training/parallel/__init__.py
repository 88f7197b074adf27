"""What one rank of a training on several GPUs holds, in closed form: weights, gradients, states, what it gathers."""
