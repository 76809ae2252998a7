#include "trainyard/place/learned/doppler_definitions.hpp"

template class trainyard::learned::DopplerNetwork<float>;
