"""Kills a run at a chosen moment and resumes it, for every combination of optimizer, scheduler, moment, workers and accumulation.
"""

import itertools
import random

import proof
import support

OPTIMIZERS = {
    "sgd": "{type: sgd, lr: 0.02, momentum: 0.9, nesterov: true}",
    "adam": "{type: adam, lr: 0.002, amsgrad: true}",
    "adamw": "{type: adamw, lr: 0.002, weight_decay: 0.05}",
    "rmsprop": "{type: rmsprop, lr: 0.0005, momentum: 0.9}",
    "adagrad": "{type: adagrad, lr: 0.02}",
}
SCHEDULERS = {
    "step_lr": "{type: step_lr, step_size: 1, gamma: 0.5}",
    "one_cycle_lr": "one_cycle_lr",
    "plateau": "{type: reduce_lr_on_plateau, patience: 0, factor: 0.5, threshold: 0.2}",
}
MOMENTS = ["mid-epoch", "edge", "validation"]
WORKERS = [0, 1, 4]
ACCUMULATION = [1, 3]


def cases():
    """Returns the whole matrix, or the requested number of combinations, which depend on the seed. The moments alternate."""
    every = list(itertools.product(OPTIMIZERS, SCHEDULERS, MOMENTS, WORKERS, ACCUMULATION))
    if proof.LONG:
        return every
    draw = random.Random(f"matrix:{proof.SEED}")
    draw.shuffle(every)
    return sorted(every, key=lambda case: sum(other[2] == case[2] for other in every[:every.index(case)]))


class Matrix(support.RunProof):
    proof = "resume matrix"
    fast, long = 4, 270

    def setUp(self):
        super().setUp()
        self.references = {}

    def test_a_resumed_run_equals_the_uninterrupted_one(self):
        self.prove(self.one, cases())

    def options(self, optimizer, scheduler, accumulation):
        return [f"optimizer={OPTIMIZERS[optimizer]}", f"scheduler={SCHEDULERS[scheduler]}",
                f"++trainer.accumulate_grad_batches={accumulation}"]

    def reference(self, *key):
        """Returns the uninterrupted run. Its training thread loads the data, because workers must not change the result."""
        if key not in self.references:
            self.references[key] = self.whole(*self.options(*key), "loader.num_workers=0", name="-".join(map(str, key)))
        return self.references[key]

    def one(self, case, draw, folder):
        optimizer, scheduler, moment, workers, accumulation = case
        reference = self.reference(optimizer, scheduler, accumulation)
        run = self.run_in(folder, *self.options(optimizer, scheduler, accumulation), f"loader.num_workers={workers}")
        steps = support.BATCHES // accumulation
        for _ in range(3):
            run.start()
            try:
                self.wait(run, moment, steps, draw)
                run.kill("group")
                break
            except proof.Unmet:
                run.wait()
                run = self.run_in(folder, *run.overrides, name=f"run-{len(self.runs)}")
        else:
            raise proof.Unmet(moment)
        run.wait()
        run.gone()
        run.finish("--resume", "auto").check_same(reference)

    def wait(self, run, moment, steps, draw):
        if moment == "mid-epoch":
            run.until_step(steps + draw.randrange(1, steps - 1))
        elif moment == "edge":
            run.until("the end of an epoch", lambda rows=draw.choice([1, 2]): run.rows() >= rows)
        else:
            run.until_phase("validate", steps * draw.choice([1, 2]))


if __name__ == "__main__":
    proof.main()
