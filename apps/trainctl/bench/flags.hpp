#pragma once

#include "cli/experiment.hpp"
#include "report/compare/bench_scaling.hpp"

#include <array>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trainctl::app {

/// A flag that names the values of one key.
struct AxisFlag {
  const char* flag;
  const char* key;
  const char* help;
};

// The first one given is the outermost axis of the table, whatever the order on the command line.
inline constexpr std::array kAxes{
    AxisFlag{"--workers", "loader.num_workers", "loader threads to compare: 0,4,8"},
    AxisFlag{"--devices", "trainer.devices", "device counts to compare: 1,2"},
    AxisFlag{"--batch-size", "loader.batch_size", "batch sizes per device to compare: 64,128"},
    AxisFlag{"--precision", "trainer.precision", "precisions to compare"},
    AxisFlag{"--pin-memory", "loader.pin_memory", "page-locked batches to compare: true,false"},
    AxisFlag{"--cache", "dataset.cache.mode",
             "where samples are kept between epochs, to compare: none,encoded,decoded"},
};

struct BenchFlags {
  ConfigArguments config;
  std::array<std::string, kAxes.size()> lists;
  std::vector<std::string> grid;
  std::string against;  // a patch, as tune writes it
  int repeats = 5;
  std::string budget;  // "10m"
  std::string out = "runs";
  bool markdown = false;
  std::string save;
  std::string csv;
  std::string junit;
  std::string html;
  std::string scaling;  // "strong", "weak"; empty: weak, where devices are compared
  std::string baseline;
  std::string fail_on;
  bool force_baseline = false;
};

report::Scaling mode_of(const BenchFlags& flags);

/// All flags of `bench`.
void add_bench_flags(CLI::App& verb, BenchFlags& flags, Context& context);

}  // namespace trainctl::app
