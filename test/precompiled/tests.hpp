#include <doctest/doctest.h>

#include "../../lib/precompiled/library.hpp"
