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

/// The effect of a changed value on a resumed run. not_bitwise: the run resumes, but its bits
/// differ from those without the change; refused: it would be another run.
enum class ChangeEffect { harmless, not_bitwise, refused };

/// A value in which the config of a checkpoint and the current one differ.
struct ConfigChange {
  std::string path;  // "optimizer.lr"
  std::string before;
  std::string now;  // as YAML; "~": not present
  ChangeEffect effect = ChangeEffect::refused;
  std::string why = {};  // set if the path does not explain it

  bool operator==(const ConfigChange&) const = default;
};

/// Returns the effect by the path alone; config_changes() also considers the values.
ChangeEffect effect_of(std::string_view path);

/// Returns the differences between `before`, a resolved config from dump_resolved(), and the
/// current experiment. A value that `before` lacks and that is now the default is no change: the
/// version that wrote `before` did not know the key. `device` is where the checkpoint was made:
/// "cpu", "cuda"; empty: unknown. Throws Error(checkpoint) when `before` cannot be read.
std::vector<ConfigChange> config_changes(const std::string& before, const spec::Loaded& now,
                                         const std::string& device = "");

/// Returns path -> value in one line. A list is a single value, because the order of its elements
/// matters.
std::map<std::string, std::string> flat_values(const config::Node& tree);
/// Returns the flat values of a resolved config. Throws Error(checkpoint) when the
/// config cannot be read.
std::map<std::string, std::string> resolved_values(const std::string& resolved);

/// Throws Error(config) that names every change that a resumed run does not accept, with
/// `checkpoint`, and with `batch_hint` after a change of loader.batch_size.
void refuse_changes(std::span<const ConfigChange> changes, const std::string& checkpoint,
                    const std::string& batch_hint = "");

/// Returns a notice about the accepted changes; empty if there are none.
std::string changes_text(std::span<const ConfigChange> changes);

/// Returns the changes that make a run not bitwise reproducible; empty if there are none.
std::string why_not_bitwise(std::span<const ConfigChange> changes);

/// The samples per step of a checkpoint's run and of the resumed run: the ranks and
/// loader.batch_size per rank. 0: unknown.
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

/// Accepts a change of loader.batch_size that keeps the global batch size.
void accept_same_global_batch(std::vector<ConfigChange>& changes, const StepSamples& samples);

/// Returns a notice about the global batch size with another number of ranks, and the
/// loader.batch_size that would keep it; empty if nothing changes or the sizes are unknown.
std::string global_batch_notice(const StepSamples& samples);

/// Returns a clause for a message: "; loader.batch_size=25 keeps the global batch of 50". Empty if
/// no size keeps it, or the current one does.
std::string same_global_batch_clause(const StepSamples& samples);

/// Returns a positive integer such as "loader.batch_size" from the text of a config.resolved.yaml;
/// nullopt if the text has no such value.
std::optional<std::int64_t> resolved_number(const std::string& config, std::string_view path);

}  // namespace trainctl::study
