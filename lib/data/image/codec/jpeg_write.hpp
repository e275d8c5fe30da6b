#pragma once

#include "data/image/image.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace trainctl::data {

/// A JPEG file of a grey or RGB image: baseline, 4:2:0, optimised Huffman tables, as libjpeg's
/// `quality` (1-100) has it.
std::vector<std::byte> write_jpeg(const ImageView& image, int quality);

/// The same picture as a baseline file, to the last coefficient and with its application markers;
/// empty where the file is baseline already. Throws Error(data) where it is damaged.
std::vector<std::byte> baseline_jpeg(std::span<const std::byte> file);

/// Whether the first bytes are a JPEG's.
bool is_jpeg(std::span<const std::byte> file);

}  // namespace trainctl::data
