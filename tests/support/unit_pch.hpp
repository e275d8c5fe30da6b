#pragma once
// Headers that almost every test of the front half uses. The sources still include what they use.
#include "base/json.hpp"
#include "support/catch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>
