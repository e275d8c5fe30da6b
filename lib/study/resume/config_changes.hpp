#pragma once

#include "spec/load.hpp"

#include <map>
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

}  // namespace trainctl::study
