#include "trainyard/place/learned/giph_definitions.hpp"

template class trainyard::learned::GiphNetwork<float>;
