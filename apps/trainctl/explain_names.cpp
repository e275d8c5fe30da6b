#include "explain_names.hpp"

#include <algorithm>
#include <array>

namespace trainctl::app {
namespace {

constexpr std::array kExitCodes{
    NamedFact{"0", "done"},
    NamedFact{"1", "unexpected failure: a bug of trainctl, please report it"},
    NamedFact{"2", "error in the command line or in the experiment file"},
    NamedFact{"3", "a gate failed: a condition of --fail-on does not hold"},
    NamedFact{"4", "inconclusive: the measurements are too noisy to decide; repeat more often"},
    NamedFact{"5", "some runs of a sweep failed; the table names them"},
    NamedFact{"6", "diverged: a loss or gradient is not finite; see trainer.on_divergence"},
    NamedFact{"7", "a rank failed and no restart was left; see trainer.max_restarts"},
    NamedFact{"8", "hang or time-out: no step in trainer.hang_timeout"},
    NamedFact{"9", "error in the data; the message names the file and the sample"},
    NamedFact{"10", "error in a checkpoint or in weights; see trainctl checkpoint verify"},
    NamedFact{"11", "a resource is missing: disk, memory, port, lock or device"},
    NamedFact{"75", "stopped on request after a verified checkpoint: resume with --resume auto"},
    NamedFact{"93", "do not requeue: no progress in 3 restarts"},
    NamedFact{"130", "interrupted with Ctrl-C"},
    NamedFact{"143", "terminated (SIGTERM) before a checkpoint could be saved"},
};

constexpr std::array kValues{
    NamedFact{"epoch", "epoch of training"},
    NamedFact{"step", "optimizer steps since the start of the run"},
    NamedFact{"lr", "learning rate of the first parameter group"},
    NamedFact{"train", "value of a metric on the training samples of an epoch, as in train/loss"},
    NamedFact{"val", "value of a metric on dataset.val after an epoch, as in val/accuracy"},
    NamedFact{"loss", "mean loss of the samples, as in train/loss and val/loss"},
    NamedFact{"wall_s", "seconds of an epoch; the parts below sum to it"},
    NamedFact{"data_wait_s", "seconds in which the step waits for a batch (column 'data')"},
    NamedFact{"h2d_s",
              "seconds of copies to the device (column 'h2d'); on a CPU of converting a batch to "
              "the model's number format (column 'convert')"},
    NamedFact{"forward_s", "seconds of forward passes and losses (column 'fwd')"},
    NamedFact{"backward_s", "seconds of backward passes (column 'bwd')"},
    NamedFact{"allreduce_exposed_s",
              "seconds of gradient exchange that no computation hides (column 'sync')"},
    NamedFact{"optimizer_s", "seconds of optimizer steps (column 'opt')"},
    NamedFact{"eval_s", "seconds of validation (column 'eval')"},
    NamedFact{"checkpoint_s", "seconds in which training waits for a checkpoint"},
    NamedFact{"other_s", "seconds of an epoch that belong to no other part (column 'other')"},
    NamedFact{"samples", "samples of an epoch, over all ranks"},
    NamedFact{"samples_per_s", "samples of training per second, over all ranks"},
    NamedFact{"first_batch_s", "seconds until the first batch of an epoch"},
    NamedFact{"cpu_percent", "CPU time of the ranks as a share of one core's time"},
    NamedFact{"rss_mb", "largest resident memory of the ranks in MB"},
    NamedFact{"gpu_util", "utilization of the GPU in percent, as NVML reports it"},
    NamedFact{"gpu_mem_mb", "largest memory of the GPU in MB"},
    NamedFact{"read_mb_s", "MB read from disks per second"},
    NamedFact{"total_s", "seconds of a whole run, as bench compares them"},
    NamedFact{"speedup", "ratio of the base's time to this one's, with its 95 % interval"},
    NamedFact{"headroom", "factor that a run could gain at most, by its bottleneck verdict"},
    NamedFact{"convert", "column of h2d_s on a CPU"},
    NamedFact{"h2d", "column of h2d_s on a GPU"},
    NamedFact{"fwd", "column of forward_s"},
    NamedFact{"bwd", "column of backward_s"},
    NamedFact{"sync", "column of allreduce_exposed_s"},
};

template <std::size_t N>
std::optional<NamedFact> find_fact(const std::array<NamedFact, N>& facts, std::string_view name) {
  const auto found = std::ranges::find(facts, name, &NamedFact::name);
  return found == facts.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::optional<NamedFact> exit_code_called(const std::string& text) {
  std::string_view code = text;
  for (const std::string_view prefix : {"exit code ", "exit_code ", "exit "}) {
    if (!code.starts_with(prefix)) continue;
    code.remove_prefix(prefix.size());
    break;
  }
  return find_fact(kExitCodes, code);
}

std::optional<NamedFact> value_called(const std::string& text) {
  if (auto found = find_fact(kValues, text)) return found;
  return text.starts_with("train/") || text.starts_with("val/")
             ? find_fact(kValues, std::string_view(text).substr(0, text.find('/')))
             : std::nullopt;
}

std::vector<std::string> fact_names() {
  std::vector<std::string> names;
  for (const NamedFact& fact : kValues) names.emplace_back(fact.name);
  return names;
}

}  // namespace trainctl::app
