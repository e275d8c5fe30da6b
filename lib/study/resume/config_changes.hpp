#pragma once

#include "spec/load.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::study {

/// What a change of a value means for a run that goes on. not_bitwise: it goes on, but with other
/// bits than without the change; refused: it would be another run.
enum class Effect { harmless, not_bitwise, refused };

/// A value that the config of a checkpoint and the one at hand do not have in common.
struct ConfigChange {
  std::string path;  // "optimizer.lr"
  std::string before;
  std::string now;  // as YAML; "~": it is not there
  Effect effect = Effect::refused;
  std::string why = {};  // where the path does not tell

  bool operator==(const ConfigChange&) const = default;
};

/// By the path alone; config_changes() knows more.
Effect effect_of(std::string_view path);

/// `before` is a resolved config, as dump_resolved() wrote it. A value that it does not have and
/// that is the default now was not known to the version that wrote it: no change. `device`, on
/// which the checkpoint was made: "cpu", "cuda"; empty: not known. Throws Error(checkpoint) where
/// `before` cannot be read.
std::vector<ConfigChange> config_changes(const std::string& before, const spec::Loaded& now,
                                         const std::string& device = "");

/// Path -> value in one line, of a resolved config. Throws Error(checkpoint) where it cannot be
/// read.
std::map<std::string, std::string> resolved_values(const std::string& resolved);

/// Throws Error(config) that names every change that no run can go on with; `checkpoint` is shown,
/// and `batch_hint` after a change of loader.batch_size.
void refuse_changes(std::span<const ConfigChange> changes, const std::string& checkpoint,
                    const std::string& batch_hint = "");

/// What is to be said of the changes that pass; empty where there are none.
std::string changes_text(std::span<const ConfigChange> changes);

/// Those that are not bitwise; empty where there are none.
std::string why_not_bitwise(std::span<const ConfigChange> changes);

/// How many samples a step of a checkpoint's run had, and how many it has where it is resumed:
/// loader.batch_size of each rank. 0: not known.
struct StepSamples {
  std::int64_t ranks_before = 0;
  std::int64_t ranks_now = 0;
  std::int64_t batch_before = 0;
  std::int64_t batch_now = 0;

  [[nodiscard]] bool are_known() const {
    return ranks_before > 0 && ranks_now > 0 && batch_before > 0 && batch_now > 0;
  }
  [[nodiscard]] std::int64_t global_before() const { return ranks_before * batch_before; }
  [[nodiscard]] std::int64_t global_now() const { return ranks_now * batch_now; }
};

/// Another loader.batch_size passes where it keeps the global batch.
void accept_same_global_batch(std::vector<ConfigChange>& changes, const StepSamples& samples);

/// What another number of ranks makes of the global batch, and the loader.batch_size that keeps it;
/// empty where nothing changes or the sizes are not known.
std::string global_batch_notice(const StepSamples& samples);

/// "; loader.batch_size=25 keeps the global batch of 50": a clause for a message. Empty where no
/// number does, or it is the one at hand.
std::string keeping_batch_clause(const StepSamples& samples);

/// A positive whole number of the text of a config.resolved.yaml, as "loader.batch_size"; nothing
/// where none stands there.
std::optional<std::int64_t> resolved_number(const std::string& config, std::string_view path);

}  // namespace trainctl::study
