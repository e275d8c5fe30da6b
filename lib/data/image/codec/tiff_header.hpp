#pragma once

#include "data/image/codec/header_bytes.hpp"
#include "data/image/codec/header_claim.hpp"

namespace trainctl::data {

/// The first page of a TIFF file. Throws Error(data) where libtiff might read it otherwise than we
/// do, where it claims more than the limits or the file allow, and for samples that are not read.
ClaimedImage tiff_claim(const HeaderBytes& file, const DecodeLimits& limits);

}  // namespace trainctl::data
