#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trainctl::report {

/// Indices of at most `most` points, ascending, whose line looks like that of all: the first, the
/// last, and of each bucket between the point that makes the largest triangle with the one chosen
/// before it and the mean of the next bucket (Steinarsson, "Downsampling Time Series for Visual
/// Representation", 2013). All of them where there are no more than `most`, which is at least 3.
/// `x` ascends; all values are finite.
std::vector<std::size_t> thinned(std::span<const double> x, std::span<const double> y,
                                 std::size_t most);

}  // namespace trainctl::report
