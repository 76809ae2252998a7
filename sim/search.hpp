#pragma once

#include <string>

#include "arguments.hpp"
#include "console.hpp"
#include "trainyard/place/placer.hpp"

namespace trainyard::program {

/// --time, --evaluations and --threads for a placer that searches, its progress on the console, and an interrupt as its
/// end. Without one that searches, throws UsageError where any of them is given; `who` is named in it.
void add_search_options(PlaceOptions& options, const Arguments& arguments, bool searches, const std::string& who,
                        Console& console);

/// --time, in seconds; here "2m" is two minutes. Throws UsageError.
double time_limit(const std::string& text);

/// --threads; 0: not given.
unsigned chosen_threads(const Arguments& arguments);

}  // namespace trainyard::program
