#pragma once

#include "config/schema/schema.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// Returns the stage of `kind` to propose where none is named: of those that have most of `keys`
/// the most common one. "name" where there is no stage of that kind.
std::string usual_stage(const Vocabulary& vocabulary, std::string_view kind,
                        const std::vector<std::string>& keys = {});

/// Returns the key that holds stages of `kind`, as "dataset.train.transforms"; empty where no key
/// of the experiment does.
std::string_view place_of_kind(std::string_view kind);

/// Returns "it is a batch transform: write 'dataset.train.batch_transforms: [mixup]'" where a stage
/// of another kind than `except` has that name; else "".
std::string stage_elsewhere_hint(const Vocabulary& vocabulary, std::string_view name,
                                 std::string_view except = {});

}  // namespace trainctl::config
