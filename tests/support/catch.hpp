#pragma once

// The one place that names Catch2's version: Debian 12 and Ubuntu 24.04 have different ones.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::Contains;
#else
#include <catch2/catch.hpp>
using Catch::Matchers::Contains;
#endif

/// Ends the test visibly as skipped (exit code 4, which CTest counts as skipped).
[[noreturn]] void skip(const char* reason);
