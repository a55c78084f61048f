from review_fixtures import made, page, photos, texts

__all__ = ["made", "page", "photos", "texts"]
