#pragma once

#include "data/core/registry.hpp"
#include "data/pack/pack_format.hpp"

#include <string>

namespace trainctl::data {

/// What a pack remembers of the data set it is made from: its options, and the times and sizes of
/// what they name: every folder, and every file where they are few. Call it before the data set is
/// opened. Of a remote source, or one without files, no marks.
PackOrigin record_origin(const config::Stage& source);

/// Throws Error(data) where the source is still in its place and has other samples now. Cheap while
/// nothing has changed: one look at each mark; else the source is opened and compared.
void check_pack_origin(const PackHeader& header, const PackOrigin& origin, const Catalog& catalog,
                       const std::string& file);

/// Throws Error(data) unless the pack was made from a source with this fingerprint.
void check_pack_source(const PackHeader& header, const std::string& fingerprint,
                       const std::string& file);

}  // namespace trainctl::data
