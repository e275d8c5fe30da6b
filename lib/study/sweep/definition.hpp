#pragma once

#include "base/json.hpp"
#include "spec/load.hpp"

#include <string>
#include <vector>

// What makes two sweeps the same one.

namespace trainctl::study {

/// Of the resolved experiment, every default in it, without its seed: runs that differ by the seed
/// alone have the same.
std::string config_hash(const spec::Loaded& loaded);

/// Path -> value of the resolved experiment without the keys that the sweep varies, with what is
/// below them, and without the seed.
Json fixed_values(const spec::Loaded& loaded, const std::vector<std::string>& varied);

/// The key that a word of the command line names, without its signs.
std::string bare_key(const std::string& key);

/// What differs, path by path: "samples: 10 -> 20; base.optimizer.lr: 0.1 -> 0.2 and 3 more". Empty
/// where nothing does.
std::string definition_difference(const Json& before, const Json& now);

}  // namespace trainctl::study
