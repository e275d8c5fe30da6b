#include "spec/load.hpp"
#include "spec/logger/console.hpp"
#include "spec/logger/csv.hpp"
#include "spec/logger/exec.hpp"
#include "spec/logger/html.hpp"
#include "spec/logger/jsonl.hpp"
#include "spec/logger/prometheus.hpp"
#include "spec/logger/tensorboard.hpp"
#include "spec/stage_headers.hpp"

namespace trainctl::spec {
namespace {

// They are neither of the data half nor of the engine half: study/loggers.cpp makes them.
void add_loggers(config::Vocabulary& all) {
  all.add<logger::Console>("logger", "console");
  all.add<logger::Csv>("logger", "csv");
  all.add<logger::Exec>("logger", "exec");
  all.add<logger::Html>("logger", "html");
  all.add<logger::Jsonl>("logger", "jsonl");
  all.add<logger::Prometheus>("logger", "prometheus");
  all.add<logger::Tensorboard>("logger", "tensorboard");
}

}  // namespace

const config::Vocabulary& builtin_vocabulary() {
  static const config::Vocabulary vocabulary = [] {
    config::Vocabulary all;
#define TRAINCTL_ADD(kind, name, Type) all.add<kind::Type>(#kind, #name);
    TRAINCTL_FOR_EACH_STAGE(TRAINCTL_ADD)
#undef TRAINCTL_ADD
    add_loggers(all);
    return all;
  }();
  return vocabulary;
}

}  // namespace trainctl::spec
