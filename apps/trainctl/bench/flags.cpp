#include "bench/flags.hpp"

#include "base/strings.hpp"
#include "cli/context.hpp"
#include "spec/experiment/experiment.hpp"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>

namespace trainctl::app {
namespace {

std::string one_of_scalings(const std::string& text) {
  const auto names = enum_names(report::Scaling());
  if (std::ranges::find(names, text) != names.end()) return {};
  return fmt::format("'{}' is not one of {}", printable(text), fmt::join(names, ", "));
}

void add_axes(CLI::App& verb, BenchFlags& flags) {
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    std::string help = kAxes[i].help;
    if (std::string_view(kAxes[i].key) == "trainer.precision") {
      help += fmt::format(": {}", fmt::join(enum_names(spec::Precision{}), ","));
    }
    verb.add_option(kAxes[i].flag, flags.lists[i], help)->type_name("LIST");
  }
  verb.add_option("--grid", flags.grid,
                  "values of any key to compare: optimizer.lr=0.1,0.01; may be repeated")
      ->type_name("KEY=LIST")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option("--against", flags.against,
                  "compare the experiment with all keys of a patch at once, as tune writes it")
      ->type_name("FILE");
  verb.add_option(
          "--scaling", flags.scaling,
          "what stays with --devices: weak: the batch of a device; strong: the samples of a "
          "step, so that loader.batch_size is divided; weak where this is left out")
      ->type_name("HOW")
      ->check(std::function<std::string(const std::string&)>(one_of_scalings));
}

void add_gate(CLI::App& verb, BenchFlags& flags) {
  verb.add_option("--fail-on", flags.fail_on,
                  "changes that end with 3 (4: too noisy to tell): samples_per_s<-2.5%, "
                  "rss_mb>+10%, val/accuracy<-0.5pt; against the baseline, else the first row")
      ->type_name("CONDITIONS");
  verb.add_option("--baseline", flags.baseline,
                  "file of an earlier --save, or a run, that --fail-on compares with")
      ->type_name("PATH");
  verb.add_flag("--force-baseline", flags.force_baseline,
                "compare also where machine or config are others");
}

void add_outputs(CLI::App& verb, BenchFlags& flags) {
  verb.add_option("--out", flags.out, "folder that holds the runs")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_flag("--markdown", flags.markdown, "print the tables as Markdown");
  verb.add_option("--save", flags.save, "write the JSON document to this file")->type_name("FILE");
  verb.add_option("--csv", flags.csv, "write the numbers of every run to this file")
      ->type_name("FILE");
  verb.add_option("--junit", flags.junit,
                  "write settings and conditions as test cases to this file")
      ->type_name("FILE");
  verb.add_option("--html", flags.html, "write a page with the charts to this file")
      ->type_name("FILE");
}

}  // namespace

report::Scaling mode_of(const BenchFlags& flags) {
  return flags.scaling == "strong" ? report::Scaling::strong : report::Scaling::weak;
}

void add_bench_flags(CLI::App& verb, BenchFlags& flags, Context& context) {
  add_config_arguments(verb, flags.config, context, Builtin::photographs);
  add_axes(verb, flags);
  verb.add_option("--repeats", flags.repeats, "runs of each setting")
      ->type_name("N")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  verb.add_option("--budget", flags.budget,
                  "time in which the bench ends, with fewer repeats if need be: 10m (built-in "
                  "experiments: 150s)")
      ->type_name("TIME");
  add_gate(verb, flags);
  add_outputs(verb, flags);
}

}  // namespace trainctl::app
