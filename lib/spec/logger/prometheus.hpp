#pragma once

#include "config/schema/describe.hpp"

#include <filesystem>
#include <optional>

namespace trainctl::spec::logger {

struct Prometheus {
  static constexpr auto kSummary =
      "A file that the textfile collector of Prometheus' node_exporter reads: state, step, loss, "
      "rate, checkpoints, exit code.";

  std::optional<std::filesystem::path> file;
  double every_s = 15;

  static void describe(config::Describe<Prometheus>& options) {
    options
        .field("file", &Prometheus::file,
               "The file, whose name ends in .prom; each run on a machine needs one of its own. "
               "Absent: trainctl.prom in the run folder.")
        .example("/var/lib/node_exporter/textfile/trainctl.prom");
    options.field("every_s", &Prometheus::every_s, "Seconds between two updates within an epoch.")
        .at_least(0.1)
        .at_most(86400);
  }
};

}  // namespace trainctl::spec::logger
