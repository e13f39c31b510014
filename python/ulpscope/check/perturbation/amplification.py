from ulpscope.check.perturbation.perturber import Perturber


class Amplification(Perturber):
    pass
