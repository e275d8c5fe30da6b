#include "sweep/flags.hpp"

#include "base/strings.hpp"
#include "cli/context.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

void add_ways(CLI::App& verb, SweepFlags& flags) {
  verb.add_option("--list", flags.list, "YAML file with a list of maps, one a run")
      ->type_name("FILE");
  verb.add_option("--samples", flags.samples, "draw so many settings at random")
      ->type_name("N")
      ->check(whole_number(1, 10'000));
  verb.add_option("--lhs", flags.lhs, "draw so many settings as a Latin hypercube")
      ->type_name("N")
      ->check(whole_number(1, 10'000));
  verb.add_option("--sample-seed", flags.sample_seed, "of what is drawn")
      ->type_name("N")
      ->check(whole_number(0, INT64_MAX));
  verb.add_option("--seeds", flags.seeds, "run each setting with these seeds, compared in pairs")
      ->type_name("LIST");
  verb.add_flag("--asha", flags.asha,
                "stop runs early that are worse than others (asynchronous successive halving)");
  verb.add_option("--eta", flags.eta, "with --asha: of so many settings one goes on")
      ->type_name("N")
      ->check(whole_number(2, 1000));
  verb.add_option("--min-epochs", flags.min_epochs, "with --asha: that each setting is given")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000'000));
}

void add_course(CLI::App& verb, SweepFlags& flags) {
  verb.add_option("--jobs", flags.jobs, "runs side by side, which share cores and GPUs")
      ->type_name("N")
      ->check(whole_number(1, 1000));
  verb.add_option("--retries", flags.retries,
                  "try a run again that lacked memory, disk or a device, so often")
      ->type_name("N")
      ->check(whole_number(0, 1000));
  CLI::Option* fast = verb.add_flag("--fail-fast", flags.fail_fast, "a run that fails ends all");
  verb.add_flag("--keep-going", flags.keep_going, "it does not: the default")->excludes(fast);
  verb.add_flag("--resume", flags.resume,
                "resume the sweep of --out, else the newest of that name; more settings are added");
  verb.add_flag("--retry-failed", flags.retry_failed, "run again what has failed");
}

std::function<std::string(const std::string&)> one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& text) -> std::string {
    if (std::ranges::find(names, text) != names.end()) return {};
    return fmt::format("'{}' is not one of {}", printable(text), join(names, ", "));
  };
}

}  // namespace

void add_sweep_flags(CLI::App& verb, SweepFlags& flags) {
  add_ways(verb, flags);
  verb.add_option("--monitor", flags.monitor,
                  "what settings are ranked by, such as val/accuracy; the experiment's own")
      ->type_name("METRIC");
  verb.add_option("--mode", flags.mode, "whether the lowest or the highest is best: min, max")
      ->type_name("HOW")
      ->check(one_of({"min", "max"}));
  verb.add_option("--against", flags.against, "the row that all are compared with: best, first")
      ->type_name("WHICH")
      ->check(one_of({"best", "first"}));
  add_course(verb, flags);
  verb.add_option("--out", flags.out, "folder of the sweep (default: runs/sweep/NAME/TIME)")
      ->type_name("DIR");
  verb.add_option("--csv", flags.csv, "write a line a run to this file")->type_name("FILE");
  verb.footer(
      "Keys that vary:  optimizer.lr=0.1,0.01  model.hidden=[32],[64]  "
      "loader.batch_size=range(16,65,16)\n"
      "To draw from:    optimizer.lr=log(1e-4,1e-1)  model.dropout=uniform(0,0.5)  "
      "optimizer.type=choice(sgd,adam)\n"
      "Exit codes: 0 all runs are done; 5 some have failed; 75 or 130 stopped, go on with "
      "--resume.");
}

}  // namespace trainctl::app
