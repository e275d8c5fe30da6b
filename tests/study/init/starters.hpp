#pragma once

#include "data/fakes.hpp"
#include "study/init/starter.hpp"
#include "study/preflight/experiment_checks.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <string>
#include <vector>

namespace trainctl::study::testing {

using data::testing::failure_of;

/// A folder with the user's data and the experiment file.
class StarterFolder {
 public:
  /// Returns the starter experiment for `data` in the folder.
  [[nodiscard]] Starter make(const std::string& kind, const std::string& data,
                             const std::string& target = "") const {
    return make_starter({kind, folder_ / data, folder_ / "config.yaml", target});
  }
  /// Returns the exit code and message of the error for `data`.
  [[nodiscard]] std::string failure(const std::string& kind, const std::string& data,
                                    const std::string& target = "") const {
    return failure_of([&] { (void)make(kind, data, target); });
  }
  /// Returns the problems that `trainctl validate` finds in the experiment.
  [[nodiscard]] std::string problems(const Starter& starter) const {
    put_text(folder_ / "config.yaml", starter.yaml);
    TrainingSamples samples;
    config::Diagnostics diagnostics;
    try {
      spec::load_experiment(folder_ / "config.yaml", {"++trainer.accelerator=cpu"}, diagnostics,
                            checks_for(Purpose::training, samples));
    } catch (const Error& error) {
      return diagnostics.render() + error.what();
    }
    return {};
  }
  void write(const std::string& name, const std::string& text) const {
    put_text(folder_ / name, text);
  }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return folder_ / name;
  }

 private:
  TempFolder folder_;
};

/// Returns the value of a fact, or "-".
inline std::string fact(const Starter& starter, const std::string& name) {
  for (const auto& [found, value] : starter.facts)
    if (found == name) return value;
  return "-";
}

}  // namespace trainctl::study::testing
